// Where kvlab's own files are, from any working directory.
#pragma once

#include <string>

namespace kvlab {

/// The folder that holds configs/ and models/: KVLAB_HOME, else the source root it was built from, else the install
/// prefix's share/kvlab. Throws InputError when none of them has a configs/ folder.
std::string kvlab_home();

}  // namespace kvlab
