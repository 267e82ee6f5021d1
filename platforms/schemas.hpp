#pragma once
// JSON Schemas (draft 2020-12) of what stands in catalog folders. tests/sim/app/schema_command_test.cpp holds them to
// the shipped files and to the readers.

#include <string>

namespace rehearse {

/// Entries of catalog files, which scenarios may also contain inline.
std::string accelerator_schema();
std::string instance_schema();
std::string interconnect_schema();
std::string region_link_schema();
std::string spot_pool_schema();
std::string storage_schema();
std::string messaging_schema();

/// Whole files.
std::string catalog_schema();
std::string price_history_schema();
std::string profile_schema();

}  // namespace rehearse
