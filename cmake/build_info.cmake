# Writes build_info.h: what a report says about the build. Run at every build, so that the commit is the one built;
# without git, or outside a repository, the commit stays unknown.
set(sha "")
set(dirty "")
find_program(GIT git)
if(GIT)
  execute_process(COMMAND ${GIT} -C ${SOURCE_DIR} rev-parse HEAD
    OUTPUT_VARIABLE sha RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(failed)
    set(sha "")
  else()
    execute_process(COMMAND ${GIT} -C ${SOURCE_DIR} status --porcelain --untracked-files=no
      OUTPUT_VARIABLE changes OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(changes STREQUAL "")
      set(dirty "no")
    else()
      set(dirty "yes")
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT [[
// Written by cmake/build_info.cmake at every build.
#pragma once

namespace kvlab {

inline constexpr const char* kBuildCompiler = "@COMPILER@";
inline constexpr const char* kBuildFlags = "@FLAGS@";
inline constexpr const char* kBuildGitSha = "@sha@";      // "": unknown
inline constexpr const char* kBuildGitDirty = "@dirty@";  // "yes" | "no" | "": unknown

}  // namespace kvlab
]] @ONLY)
