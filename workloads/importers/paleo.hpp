#pragma once
// Networks of Paleo. Source: Qi, Sparks and Talwalkar, Paleo, ICLR 2017, and its repository's nets/*.json.

#include "workloads/importers/importer.hpp"

namespace rehearse {

/// An object whose "layers" are named objects with a type and parents.
bool is_paleo_net(const Source& source);

/// A model of family "graph", layout NHWC. A convolution has a bias unless it is normalised. Throws InputError.
ImportedModel read_paleo_net(const Source& source);

}  // namespace rehearse
