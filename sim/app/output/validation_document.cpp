#include "sim/app/output/validation_document.hpp"
namespace rehearse {
std::string validation_report(const Study&, const Validation& , std::size_t ) { return ""; }
}
