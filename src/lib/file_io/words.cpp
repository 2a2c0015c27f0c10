#include "lib/file_io/words.h"

#include <cstdio>

namespace file_io {

std::string Mismatch::hex(std::uint32_t word) {
    char text[16];
    std::snprintf(text, sizeof text, "0x%08x", word);
    return text;
}

unsigned Mismatch::byte() const {
    unsigned byte = 0;
    for (std::uint32_t difference = found ^ expected; (difference & 0xFF) == 0 && byte < 3; difference >>= 8)
        ++byte;
    return byte;  // the hosts of this suite are little-endian
}

}  // namespace file_io
