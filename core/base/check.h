// Checks of our own invariants. A failed one throws InternalError with the expression, the values
// and the place: it is a bug of ours (or of a component's), never a user's mistake.
#pragma once
#include <source_location>
#include <stdexcept>
#include <string>

#include "registry/text.h"

namespace moelab {

class InternalError : public std::logic_error {
  using std::logic_error::logic_error;
};

[[noreturn]] void check_failed(const char* expression, const std::string& values,
                               std::source_location where = std::source_location::current());

}  // namespace moelab

// MOELAB_CHECK(a == b, "a ", a, " b ", b): values are only formatted on failure.
#define MOELAB_CHECK(expression, ...)                                                   \
  do {                                                                                  \
    if (!(expression)) ::moelab::check_failed(#expression, ::moelab::str(__VA_ARGS__)); \
  } while (false)
