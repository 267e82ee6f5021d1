#include "platforms/catalog.hpp"
#include <doctest/doctest.h>
