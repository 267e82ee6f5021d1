#pragma once
// Whether what was measured is the GPU, the collective and the number of ranks that a study simulates.

#include <string>
#include <string_view>
#include <vector>

#include "calibration/study.hpp"
#include "platforms/catalog.hpp"

namespace rehearse {

/// Whether a driver's name, "NVIDIA A100-SXM4-80GB", and the catalog's, "A100 80GB", are of the same model: they share the
/// word with its number. Sizes of memory and forms (SXM4, PCIe, NVL) do not count, nor do words without a digit where both
/// names have one with.
bool is_same_gpu_model(std::string_view device, std::string_view accelerator);

/// A line for each GPU that the study's column of devices names and the scenarios of its rows do not have. In a table without one
/// a column called gpu, gpu_name, gpu_type, accelerator or device stands for it, as far as it has GPUs of the catalog.
std::vector<std::string> other_gpu_remarks(const Study& study, const Catalog& catalog);

/// Leaves out the rows of a listing of collectives (Measurements::is_of_collectives) that are of another collective, or of
/// another number of ranks, than their scenario, with a remark each. Throws InputError if none is left.
void leave_out_other_collectives(Study& study, const Catalog& catalog);

}  // namespace rehearse
