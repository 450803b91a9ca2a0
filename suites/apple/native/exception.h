// What C++ guests need of a C++ library's headers, of which there are none here: `std::exception` as
// the ABI has it (Itanium C++ ABI; libc++'s <exception>).
#pragma once

namespace std {
class exception {
public:
  exception() noexcept {}
  virtual ~exception() noexcept;
  virtual const char *what() const noexcept;
};
} // namespace std
