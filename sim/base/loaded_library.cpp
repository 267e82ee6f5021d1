#include "sim/base/loaded_library.hpp"

#include <dlfcn.h>

#include <stdexcept>
#include <string>

#ifndef REHEARSE_LIBRARY_FOLDER
#define REHEARSE_LIBRARY_FOLDER ""  // found by the run path of the program
#endif

namespace rehearse {

void* function_of_library(const char* library, const char* function) {
  void* loaded = dlopen((std::string{REHEARSE_LIBRARY_FOLDER} + library).c_str(), RTLD_LAZY | RTLD_LOCAL);
  void* symbol = loaded != nullptr ? dlsym(loaded, function) : nullptr;
  if (symbol == nullptr) throw std::runtime_error{std::string{library} + " cannot be loaded: " + dlerror()};
  return symbol;
}

}  // namespace rehearse
