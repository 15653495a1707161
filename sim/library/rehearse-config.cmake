# find_package(rehearse) defines the target rehearse::rehearse (sim/library/rehearse.h).
include(${CMAKE_CURRENT_LIST_DIR}/rehearse-targets.cmake)
