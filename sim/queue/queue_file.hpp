#pragma once
// Files of kind "queue".

#include <optional>
#include <string>

#include "platforms/catalog.hpp"
#include "sim/base/json.hpp"
#include "sim/queue/queue.hpp"
#include "sim/queue/speed_table.hpp"

namespace rehearse {

/// A queue as its file states it, with the table of speeds that it names, if any.
struct QueueInput {
  QueueSetup setup;
  std::optional<SpeedTable> speeds;
};

/// `json` is the content of `file_name`, of which `origins`, if any, has set some. Throws InputError, in one line, also
/// for a job that no group has GPUs, a speed or an instance for.
QueueInput read_queue(const Json& json, const std::string& file_name, const Catalog& catalog,
                      const JsonOrigins* origins = nullptr);

/// JSON Schema (draft 2020-12) of such a file.
std::string queue_schema();

}  // namespace rehearse
