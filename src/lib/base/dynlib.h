// Shared libraries that are loaded while a program runs, so that it starts where they are missing.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

namespace tenken {

/// A loaded library, or none. It stays loaded when the object goes: threads of the library may still run.
class DynamicLibrary {
  public:
    enum class Symbols {
        local,  ///< only found through this object
        global  ///< found by libraries that are loaded later
    };

    /// What to load: the library that the environment variable names, else the usual names.
    static std::vector<std::string> names(const char* variable, std::vector<std::string> usual);
    /// Loads a library by name or path. Where that fails the object is false and `why_not` is the loader's
    /// reason.
    static DynamicLibrary open(const std::string& name, std::string& why_not,
                               Symbols symbols = Symbols::local);
    /// The first of several that can be loaded. Where none can, `why_not` is the reason of the first.
    static DynamicLibrary open_first(const std::vector<std::string>& names, std::string& why_not,
                                     Symbols symbols = Symbols::local);

    explicit operator bool() const { return handle_ != nullptr; }
    /// As it was loaded.
    const std::string& name() const { return name_; }
    /// The address of a function or variable; null where there is none.
    void* symbol(const char* name) const;
    /// Points `function` at the first of these names that there is, null where there is none.
    /// @return whether there is one
    template <typename Function>
    bool load(Function& function, std::initializer_list<const char*> names) const {
        void* found = nullptr;
        for (const char* name : names) found = found == nullptr ? symbol(name) : found;
        // A function pointer cannot be cast from void* in ISO C++; POSIX promises that this works.
        *reinterpret_cast<void**>(&function) = found;
        return found != nullptr;
    }
    template <typename Function>
    bool load(Function& function, const char* name) const {
        return load(function, {name});
    }
    /// Unloads it: nothing found in it may be used any more.
    void close();

  private:
    void* handle_ = nullptr;
    std::string name_;
};

}  // namespace tenken
