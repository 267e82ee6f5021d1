# What is installed, and the Debian packages of it:  cmake --build build && cd build && cpack -G DEB
#   rehearse            the simulator, its data and documents
#   rehearse-predictor  the programs that need LibTorch, where REHEARSE_PREDICTOR builds them
# Dependencies are those of the programs, found by dpkg-shlibdeps.

install(TARGETS rehearse COMPONENT simulator)
if(HTTPLIB_FOUND)
  install(TARGETS rehearse-view COMPONENT simulator)
endif()
install(TARGETS ${rehearse_loaded_libraries} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/rehearse COMPONENT simulator)
install(TARGETS rehearse-microbench COMPONENT microbench)
if(REHEARSE_PREDICTOR)
  install(TARGETS rehearse-predictor COMPONENT predictor)
endif()
foreach(folder IN ITEMS platforms/catalog workloads/models calibration/profiles calibration/data calibration/microbench/networks scenarios sim/app/pages)
  install(DIRECTORY ${folder}/ DESTINATION ${CMAKE_INSTALL_DATADIR}/rehearse/${folder} COMPONENT data)
endforeach()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright COMPONENT data)
install(FILES README.md CHANGELOG.md CITATION.cff DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT data)

# Man pages and completions are made when they are installed, from what the program's --help prints.
find_package(Python3 QUIET COMPONENTS Interpreter)
if(Python3_FOUND)
  set(shell_files ${PROJECT_BINARY_DIR}/shell_files)
  install(CODE "execute_process(COMMAND ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/cmake/shell_files.py ${PROJECT_BINARY_DIR}/rehearse ${shell_files}
                                COMMAND_ERROR_IS_FATAL ANY)" COMPONENT data)
  install(DIRECTORY ${shell_files}/ DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT data)
endif()

set(CPACK_PACKAGE_NAME rehearse)
set(CPACK_PACKAGE_VENDOR "The Rehearse authors")
set(CPACK_PACKAGE_CONTACT "The Rehearse authors <rehearse@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENTS_ALL simulator data)
set(CPACK_DEBIAN_REHEARSE_PACKAGE_NAME rehearse)
set(CPACK_DEBIAN_REHEARSE_DESCRIPTION "simulates distributed deep-network training
Tells how fast a cluster trains a network, what that costs, what it waits for,
and what would help: GPUs, parameter servers, collectives, pipelines and the
network between them, event by event.")
set(CPACK_DEBIAN_PREDICTOR_DESCRIPTION "networks that predict what Rehearse simulates
The verbs train and compare of rehearse, which need LibTorch, and
datasets for them.")
set(CPACK_DEBIAN_PREDICTOR_PACKAGE_NAME rehearse-predictor)
set(CPACK_DEBIAN_PREDICTOR_PACKAGE_DEPENDS "rehearse (= ${PROJECT_VERSION}), libopenblas0-pthread")
if(REHEARSE_PREDICTOR)
  list(APPEND CPACK_COMPONENTS_ALL predictor)
  if(NOT CMAKE_CUDA_COMPILER)  # no package of Debian has CUDA's libraries
    list(APPEND CPACK_COMPONENTS_ALL microbench)
  endif()
endif()

include(CPack)
cpack_add_component(simulator GROUP rehearse)
cpack_add_component(data GROUP rehearse)
cpack_add_component(predictor GROUP predictor)
cpack_add_component(microbench GROUP predictor)
cpack_add_component_group(rehearse)
cpack_add_component_group(predictor)
