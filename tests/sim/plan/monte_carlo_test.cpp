#include "sim/plan/monte_carlo.hpp"
#include <doctest/doctest.h>
TEST_SUITE_BEGIN("monte carlo");
