# commit.cmake — writes which commit is built, where it changed: cmake -DSOURCE=... -DOUTPUT=commit.h -P
# commit.cmake. A copy without git has none.
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=10 HEAD OUTPUT_VARIABLE commit
                ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
if(NOT failed EQUAL 0)
  set(commit "")
endif()
set(text "#pragma once\ninline constexpr const char* rehearse_commit = \"${commit}\";\n")
set(before "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} before)
endif()
if(NOT before STREQUAL text)
  file(WRITE ${OUTPUT} "${text}")
endif()
