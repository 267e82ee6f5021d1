#pragma once
// Libraries of this program that are loaded when something needs them, as what they bring with them takes longer to load than the
// program itself: cmake/rehearse_module.cmake, rehearse_loaded_library().

namespace rehearse {

/// The function of that name, of extern "C", in a library such as "rehearse-simgrid.so", which stays loaded. Its own functions and
/// those of what it brings are bound as they are called: to bind all at once takes a third of a brief run. Throws std::runtime_error
/// where the library is not found: it lies beside the program that was built, or where packages have libraries of it.
void* function_of_library(const char* library, const char* function);

}  // namespace rehearse
