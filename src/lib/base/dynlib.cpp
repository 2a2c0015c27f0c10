#include "lib/base/dynlib.h"

#include <dlfcn.h>

#include <cstdlib>

namespace tenken {

std::vector<std::string> DynamicLibrary::names(const char* variable, std::vector<std::string> usual) {
    const char* const given = std::getenv(variable);
    if (given != nullptr && *given != '\0') return {given};
    return usual;
}

DynamicLibrary DynamicLibrary::open(const std::string& name, std::string& why_not, Symbols symbols) {
    DynamicLibrary library;
    library.name_ = name;
    library.handle_ =
        dlopen(name.c_str(), RTLD_NOW | (symbols == Symbols::global ? RTLD_GLOBAL : RTLD_LOCAL));
    if (library.handle_ == nullptr) {
        const char* const error = dlerror();
        why_not = error == nullptr ? name : error;
    }
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
