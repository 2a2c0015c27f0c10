// cuBLAS and cuSOLVER: calls checked.
#pragma once

#include <cublas_v2.h>
#include <cusolverDn.h>

#include <string>

#include "programs/hpl/matrix.h"

namespace hpl {

/// @throws std::runtime_error with library, call, code, file and line
[[noreturn]] void library_failed(const char* library, int code, const char* expression, const char* file,
                                 int line);

/// "13.0.2"
std::string cublas_version();
std::string cusolver_version();

}  // namespace hpl

#define HPL_LIBRARY(name, call)                                                                \
    do {                                                                                       \
        const int hpl_result = static_cast<int>(call);                                         \
        if (hpl_result != 0) hpl::library_failed(name, hpl_result, #call, __FILE__, __LINE__); \
    } while (false)
#define HPL_CUBLAS(call) HPL_LIBRARY("cuBLAS", call)
#define HPL_CUSOLVER(call) HPL_LIBRARY("cuSOLVER", call)
