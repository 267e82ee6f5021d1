#pragma once
// Entry to sim/base, the ground that every other folder stands on. Read in this order:
//   units.hpp           Seconds, Bytes, BytesPerSecond, Flops, FlopsPerSecond: a wrong unit does not compile
//   errors.hpp          InputError (exit code 2) and NoResultError (exit code 3)
//   parse_quantity.hpp  "25GBps" to and from those types
//   json.hpp            files of ours: JsonReader reads them key by key and refuses what it does not know
//   csv.hpp             tables of measurements, and the tables we write
//   files.hpp           whole files, written atomically; gzip
//   names.hpp           "did you mean": messages about unknown names
//   random.hpp          Rng: named random streams
//   statistics.hpp      mean, deviation, percentiles

#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/base/random.hpp"
#include "sim/base/statistics.hpp"
#include "sim/base/units.hpp"
