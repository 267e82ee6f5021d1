#pragma once
// Tables of fitted values: name, member of the struct that holds it, and bounds. Reader, writer and fit go by them.

namespace rehearse::kernels {

template <class Values>
struct Value {
  const char* name;
  double Values::*member;
  double low, high;
};

}  // namespace rehearse::kernels
