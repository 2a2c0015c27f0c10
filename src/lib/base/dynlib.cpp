#include "lib/base/dynlib.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>

namespace tenken {

namespace {

/// The library in the same folder whose absence the loader reports; empty if the message is another one, or
/// the file is not there. Wheels keep the dependencies of their libraries next to them, not always with a
/// path to them.
std::string missing_neighbour(const std::string& name, const std::string& error) {
    const std::size_t slash = name.rfind('/');
    const std::size_t end = error.find(": cannot open shared object file");
    if (slash == std::string::npos || end == std::string::npos) return "";
    const std::string missing = error.substr(0, end);
    if (missing.empty() || missing.find('/') != std::string::npos) return "";
    const std::string path = name.substr(0, slash + 1) + missing;
    return access(path.c_str(), R_OK) == 0 ? path : "";
}

/// dlopen, after the missing dependencies of a library; `depth` ends a cycle of them.
void* loaded(const std::string& name, int mode, std::string& why_not, int depth = 0) {
    std::string before;
    for (;;) {
        void* const handle = dlopen(name.c_str(), mode);
        if (handle != nullptr) return handle;
        const char* const error = dlerror();
        why_not = error == nullptr ? name : error;
        const std::string neighbour = missing_neighbour(name, why_not);
        std::string ignored;
        // a library without a name of its own (SONAME) still counts as missing after it was loaded
        if (neighbour.empty() || neighbour == before || depth > 8) return nullptr;
        if (loaded(neighbour, RTLD_NOW | RTLD_LOCAL, ignored, depth + 1) == nullptr) return nullptr;
        before = neighbour;
    }
}

}  // namespace

std::vector<std::string> DynamicLibrary::names(const char* variable, std::vector<std::string> usual) {
    const char* const given = std::getenv(variable);
    if (given != nullptr && *given != '\0') return {given};
    return usual;
}

DynamicLibrary DynamicLibrary::open(const std::string& name, std::string& why_not, Symbols symbols) {
    DynamicLibrary library;
    library.name_ = name;
    const int visible = symbols == Symbols::global ? RTLD_GLOBAL : RTLD_LOCAL;
    library.handle_ = loaded(name, RTLD_NOW | visible, why_not);
    return library;
}

DynamicLibrary DynamicLibrary::open_first(const std::vector<std::string>& names, std::string& why_not,
                                          Symbols symbols) {
    std::string first;
    for (const std::string& name : names) {
        std::string error;
        const DynamicLibrary library = open(name, error, symbols);
        if (library) return library;
        if (first.empty()) first = error;
    }
    why_not = first;
    return {};
}

void* DynamicLibrary::symbol(const char* name) const {
    return handle_ == nullptr ? nullptr : dlsym(handle_, name);
}

void DynamicLibrary::close() {
    if (handle_ != nullptr) dlclose(handle_);
    handle_ = nullptr;
}

}  // namespace tenken
