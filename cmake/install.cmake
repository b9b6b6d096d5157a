# make install: header, both libraries, the program, pkg-config and CMake package files, manual, licence.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# With its path: Debian keeps clang's OpenMP where no linker looks.
list(JOIN OpenMP_C_LIBRARIES " " VERDIT_OPENMP_LIBRARIES)
# The pkg-config file names the final prefix, which `cmake --install --prefix` may change: it is made when installing.
install(CODE "
set(CMAKE_INSTALL_INCLUDEDIR \"${CMAKE_INSTALL_INCLUDEDIR}\")
set(CMAKE_INSTALL_LIBDIR \"${CMAKE_INSTALL_LIBDIR}\")
set(PROJECT_VERSION \"${PROJECT_VERSION}\")
set(VERDIT_OPENMP_LIBRARIES \"${VERDIT_OPENMP_LIBRARIES}\")
configure_file(\"${CMAKE_SOURCE_DIR}/cmake/verdit.pc.in\" \"${CMAKE_BINARY_DIR}/verdit.pc\" @ONLY)
")
install(FILES ${CMAKE_BINARY_DIR}/verdit.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(FILES include/verdit.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
file(GLOB manual CONFIGURE_DEPENDS docs/*.md docs/*.json)
install(FILES ${manual} DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(TARGETS verdit verdit_shared EXPORT verditTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET verdit_cli)
  install(TARGETS verdit_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/verdit)
install(EXPORT verditTargets NAMESPACE verdit:: DESTINATION ${package})
configure_package_config_file(cmake/verditConfig.cmake.in ${CMAKE_BINARY_DIR}/verditConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/verditConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/verditConfig.cmake ${CMAKE_BINARY_DIR}/verditConfigVersion.cmake DESTINATION ${package})
