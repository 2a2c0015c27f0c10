// The request that a run answers (--request FILE): what a check has asked for, under a token of its own.
#pragma once

#include <string>

namespace tenken {

/// The token of a request: the string `token` of a file that holds one JSON object of the schema
/// tenken-request/1. Everything else in it is the judge's business, but it has to be JSON.
/// @throws std::runtime_error with one line, without the path: the file cannot be read, is no ordinary file,
/// has more than 16 MiB, is not JSON (or nested deeper than 64), has a key of the object twice, another
/// schema, or no token of 1 to 256 printable ASCII characters
std::string token_of_request(const std::string& path);

}  // namespace tenken
