# commit.cmake — writes which commit is built, where it changed: cmake -DSOURCE=... -DOUTPUT=commit.h -P
# commit.cmake. A copy without git has none, also in a folder of another repository.
execute_process(COMMAND git -C ${SOURCE} rev-parse --show-cdup --short=10 HEAD OUTPUT_VARIABLE said
                ERROR_QUIET RESULT_VARIABLE failed)
set(commit "")
if(failed EQUAL 0 AND said MATCHES "^\n([0-9a-f]+)\n$")  # the top of the repository is SOURCE
  set(commit ${CMAKE_MATCH_1})
  execute_process(COMMAND git -C ${SOURCE} --no-optional-locks status --porcelain
                          --untracked-files=no OUTPUT_VARIABLE changes ERROR_QUIET)
  if(NOT changes STREQUAL "")
    string(APPEND commit " with changes")
  endif()
endif()
set(text "#pragma once\ninline constexpr const char* rehearse_commit = \"${commit}\";\n")
set(before "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} before)
endif()
if(NOT before STREQUAL text)
  file(WRITE ${OUTPUT} "${text}")
endif()
