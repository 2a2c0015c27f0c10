#include "lib/cuda/check.h"

#include <unistd.h>

#include "lib/base/rank.h"

namespace tenken {
namespace cuda {

namespace {

/// The path within the sources; the location of the sources at compile time is irrelevant to the reader.
std::string within_sources(const std::string& file) {
    const std::size_t root = file.rfind("/src/");
    return root == std::string::npos ? file : file.substr(root + 1);
}

}  // namespace

std::string version_text(int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

void fail(cudaError_t code, const char* expression, const char* file, int line) {
    cudaGetLastError();  // so that the next call does not report a failed kernel launch again
    std::string text = std::string(expression) + " failed: " + cudaGetErrorName(code) + ": " +
                       cudaGetErrorString(code) + "; " + within_sources(file) + ":" + std::to_string(line);
    char host[256] = "";
    if (gethostname(host, sizeof host - 1) == 0) text += ", host " + std::string(host);
    if (!launcher_rank().empty()) text += ", rank " + launcher_rank();
    int device = 0;
    if (cudaGetDevice(&device) == cudaSuccess) text += ", GPU " + std::to_string(device);
    throw CudaError(code, text);
}

}  // namespace cuda
}  // namespace tenken
