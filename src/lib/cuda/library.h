// Calls of NVIDIA's libraries, checked: a failure ends the run with one line.
#pragma once

#include <library_types.h>

#include <stdexcept>
#include <string>

namespace tenken {
namespace cuda {

/// @throws std::runtime_error always, with library, call, code, file and line
[[noreturn]] inline void library_failed(const char* library, int code, const char* expression,
                                        const char* file, int line) {
    const std::string path = file;
    const std::size_t root = path.rfind("/src/");
    throw std::runtime_error(
        std::string(library) + ": " + expression + " failed with " + std::to_string(code) + "; " +
        (root == std::string::npos ? path : path.substr(root + 1)) + ":" + std::to_string(line));
}

/// "13.0.2". @param property of the library: cublasGetProperty, cusolverGetProperty
template <typename Property>
std::string library_version(const Property& property) {
    int parts[3] = {0, 0, 0};
    property(MAJOR_VERSION, &parts[0]);
    property(MINOR_VERSION, &parts[1]);
    property(PATCH_LEVEL, &parts[2]);
    return std::to_string(parts[0]) + "." + std::to_string(parts[1]) + "." + std::to_string(parts[2]);
}

}  // namespace cuda
}  // namespace tenken

#define TENKEN_LIBRARY(name, call)                                                          \
    do {                                                                                    \
        const int tenken_result = static_cast<int>(call);                                   \
        if (tenken_result != 0)                                                             \
            ::tenken::cuda::library_failed(name, tenken_result, #call, __FILE__, __LINE__); \
    } while (false)
#define TENKEN_CUBLAS(call) TENKEN_LIBRARY("cuBLAS", call)
#define TENKEN_CUSOLVER(call) TENKEN_LIBRARY("cuSOLVER", call)
