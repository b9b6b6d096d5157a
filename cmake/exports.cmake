# The shared library exports exactly the functions that include/verdit.h declares: the version script is made from the header, so a
# function cannot be public without being in the manual. tests/unit/check_install.sh compares the result with the header again.
set(header ${CMAKE_SOURCE_DIR}/include/verdit.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
file(READ ${header} text)
string(REGEX MATCHALL "vd_[a-z0-9_]+\\(" calls "${text}")
list(REMOVE_DUPLICATES calls)
list(SORT calls)
set(names "")
foreach(call ${calls})
  if(NOT call MATCHES "_fn\\($") # types of callbacks
    string(REPLACE "(" "" name "${call}")
    string(APPEND names "    ${name};\n")
  endif()
endforeach()
set(VERDIT_EXPORTS ${CMAKE_BINARY_DIR}/verdit.map)
file(CONFIGURE OUTPUT ${VERDIT_EXPORTS} CONTENT "VERDIT_${PROJECT_VERSION_MAJOR} {\nglobal:\n${names}local:\n    *;\n};\n")
