# One call per folder:
#   rehearse_module(NAME SOURCES a.cpp ... USES rehearse::base ... USES_INSIDE ZLIB::ZLIB ... TESTS a_test.cpp ...)
# gives the library rehearse::NAME and, of the TESTS in tests/<folder>/, the doctest program test_NAME, known to CTest.
# Cases that SLOW names (doctest patterns) are a CTest of their own, NAME_slow, labelled slow; NAME runs the others, in PARTS if so many are asked for.
# COLD sources read, check, fit, print: nothing that runs in each step of a simulation. They are compiled with -O1, in two thirds of the time.
# Tests are compiled with GCC's -Og, which takes as long as -O0: templates that they share with what they test are often theirs.
# USES are seen by those who include our headers; USES_INSIDE only by our own sources, TEST_USES by our tests. Without SOURCES: headers only.

function(rehearse_module name)
  cmake_parse_arguments(PARSE_ARGV 1 module "COLD" "PARTS" "SOURCES;USES;USES_INSIDE;TEST_USES;TESTS;SLOW")
  rehearse_refuse_unparsed("rehearse_module(${name})" "${module_UNPARSED_ARGUMENTS}")
  set(target rehearse_${name})
  if(module_SOURCES)
    add_library(${target} STATIC ${module_SOURCES})
    target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR})
    target_link_libraries(${target} PUBLIC ${module_USES} PRIVATE ${module_USES_INSIDE})
    if(module_COLD)
      target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
    endif()
    rehearse_precompile(${target})
  else()
    add_library(${target} INTERFACE)
    target_include_directories(${target} INTERFACE ${PROJECT_SOURCE_DIR})
    target_link_libraries(${target} INTERFACE ${module_USES} ${module_USES_INSIDE})
  endif()
  add_library(rehearse::${name} ALIAS ${target})
  rehearse_tests(${name} USES rehearse::${name} ${module_USES} ${module_USES_INSIDE} ${module_TEST_USES} TESTS ${module_TESTS}
                 SLOW ${module_SLOW} PARTS ${module_PARTS})
endfunction()

# rehearse_loaded_library(NAME SOURCES a.cpp ... USES rehearse::resources ...): rehearse-NAME.so, which programs load when they need it
# (sim/base/loaded_library.hpp), since what it brings with it takes longer to load than they do.
set(rehearse_loaded_libraries rehearse_simgrid rehearse_pcap)
function(rehearse_loaded_library name)
  cmake_parse_arguments(PARSE_ARGV 1 library "" "" "SOURCES;USES")
  rehearse_refuse_unparsed("rehearse_loaded_library(${name})" "${library_UNPARSED_ARGUMENTS}")
  add_library(rehearse_${name} MODULE ${library_SOURCES})
  set_target_properties(rehearse_${name} PROPERTIES PREFIX "" OUTPUT_NAME rehearse-${name} LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  target_link_libraries(rehearse_${name} PRIVATE ${library_USES})
endfunction()

# rehearse_program(NAME SOURCES main.cpp ... USES rehearse::job ... ): an executable at the top of the build folder.
function(rehearse_program name)
  cmake_parse_arguments(PARSE_ARGV 1 program "" "" "SOURCES;USES")
  rehearse_refuse_unparsed("rehearse_program(${name})" "${program_UNPARSED_ARGUMENTS}")
  add_executable(${name} ${program_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${program_USES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  add_dependencies(${name} ${rehearse_loaded_libraries})
  rehearse_precompile(${name})
endfunction()

# rehearse_tests(NAME USES targets... TESTS files... SLOW patterns... PARTS n): the program test_NAME from tests/<this folder>/.
# The cases of a program that takes minutes run in n PARTS, each a test of its own that others run beside.
# A *_test.cpp there that is not listed is an error, also when it appears after CMake has run; folders with a module of
# their own are left to it.
function(rehearse_tests name)
  cmake_parse_arguments(PARSE_ARGV 1 tests "" "PARTS" "USES;TESTS;SLOW")
  if(NOT BUILD_TESTING)
    return()
  endif()
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE folder)
  if(NOT folder MATCHES "^tests/")
    set(folder tests/${folder})
  endif()
  set(test_folder ${PROJECT_SOURCE_DIR}/${folder})
  file(GLOB_RECURSE found CONFIGURE_DEPENDS RELATIVE ${test_folder} ${test_folder}/*_test.cpp)
  file(GLOB_RECURSE modules_below CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/*/CMakeLists.txt)
  foreach(module IN LISTS modules_below)  # their tests are theirs
    cmake_path(GET module PARENT_PATH module_folder)
    list(FILTER found EXCLUDE REGEX "^${module_folder}/")
  endforeach()
  rehearse_refuse_others("${found}" "${tests_TESTS}" "of ${folder} is in no list of TESTS: add it, so that it is built and run")
  list(TRANSFORM found PREPEND ${folder}/)
  set_property(GLOBAL APPEND PROPERTY rehearse_known_tests ${found})
  if(NOT tests_TESTS)
    return()
  endif()
  list(TRANSFORM tests_TESTS PREPEND ${test_folder}/)
  add_executable(test_${name} ${tests_TESTS})
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(test_${name} PRIVATE rehearse_test_main rehearse_test_paths ${tests_USES})
  target_compile_options(test_${name} PRIVATE $<IF:$<AND:$<CXX_COMPILER_ID:GNU>,$<CONFIG:Release>>,-Og,-O0>)
  rehearse_precompile(test_${name})
  add_dependencies(test_${name} ${rehearse_loaded_libraries})
  if(tests_SLOW)
    rehearse_refuse_unknown_cases(test_${name} "${tests_SLOW}" "${tests_TESTS}")
    list(JOIN tests_SLOW "," slow)
    rehearse_add_parts(${name} "${tests_PARTS}" "${tests_TESTS}" "--test-case-exclude=${slow}")
    add_test(NAME ${name}_slow COMMAND test_${name} "--test-case=${slow}")
    set_tests_properties(${name}_slow PROPERTIES LABELS slow)
  else()
    rehearse_add_parts(${name} "${tests_PARTS}" "${tests_TESTS}")
  endif()
  if(tests_SLOW)
    rehearse_limit(${name}_slow)
  endif()
endfunction()

# The tests NAME, or NAME_1 to NAME_<parts>, of about as many cases each; further arguments are the program's.
function(rehearse_add_parts name parts files)
  if(NOT parts)
    add_test(NAME ${name} COMMAND test_${name} ${ARGN})
    rehearse_limit(${name})
    return()
  endif()
  set(cases 0)
  foreach(file IN LISTS files)
    file(STRINGS ${file} of_file REGEX "^ *TEST_CASE")
    list(LENGTH of_file count)
    math(EXPR cases "${cases} + ${count}")
  endforeach()
  foreach(part RANGE 1 ${parts})
    math(EXPR first "(${part} - 1) * ${cases} / ${parts} + 1")
    math(EXPR last "${part} * ${cases} / ${parts}")
    if(part EQUAL parts)
      set(last 1000000)
    endif()
    add_test(NAME ${name}_${part} COMMAND test_${name} --first=${first} --last=${last} ${ARGN})
    rehearse_limit(${name}_${part})
  endforeach()
endfunction()

# What the longest tests take on two idle cores, in seconds. They begin first, so that no processor is left alone with one of them.
set(rehearse_long_tests app_4=110 app_slow=80 gallery=60 python_wheel=60 gnn=60 readme_tables=55 slurm=55 recorded=50 app_1=45 plan=45 reports=45 app_2=40 app_3=40
                        docs=40 faulty_slurm=40 job_slow=40 microbench=40 pages=40 training=35 calibration_slow=30 driple_files=30 gnn_slow=30 package=30 pool=30
                        scenario=30 tidy=30 traffic_tshark=30 view_server=30 calibration=25 kineto=25 structure_fuzzer=25 resources=20 critical_path=15 docs_site=15)

# A test may take ten times as long, on a machine that does other work, and whatever is not among the longest 10 minutes; with
# sanitizers an hour.
function(rehearse_limit name)
  if(REHEARSE_SANITIZE)
    set_tests_properties(${name} PROPERTIES TIMEOUT 3600)
    return()
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT 600)
  foreach(test IN LISTS rehearse_long_tests)
    if(test MATCHES "^${name}=(.+)$")
      math(EXPR limit "600 + 10 * ${CMAKE_MATCH_1}")
      set_tests_properties(${name} PROPERTIES COST ${CMAKE_MATCH_1} TIMEOUT ${limit})
    endif()
  endforeach()
endfunction()

# rehearse_python_test(NAME SCRIPT ARGUMENTS...): SCRIPT, named from the root, is a test.
function(rehearse_python_test name script)
  if(BUILD_TESTING)
    rehearse_require(Python3 python3)
    add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/${script} ${ARGN})
    rehearse_limit(${name})
  endif()
endfunction()

# Patterns ("how a case begins*") that no case of the files has: they would leave out, or run, nothing.
function(rehearse_refuse_unknown_cases program patterns files)
  foreach(file IN LISTS files)
    file(STRINGS ${file} of_file REGEX "TEST_CASE")
    string(APPEND cases "${of_file}")
  endforeach()
  foreach(pattern IN LISTS patterns)
    string(REPLACE "*" "" start "${pattern}")
    string(FIND "${cases}" "TEST_CASE(\"${start}" place)
    if(place EQUAL -1)
      message(FATAL_ERROR "${program}: no test case begins with \"${start}\", which is listed as SLOW")
    endif()
  endforeach()
endfunction()

# To be called last: a test in a folder without module would otherwise never be built. Arguments: folders left out on purpose.
function(rehearse_refuse_tests_outside_modules)
  get_property(known GLOBAL PROPERTY rehearse_known_tests)
  file(GLOB_RECURSE found CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/tests/*_test.cpp)
  foreach(folder IN LISTS ARGN)
    list(FILTER found EXCLUDE REGEX "^tests/${folder}/")
  endforeach()
  rehearse_refuse_others("${found}" "${known}" "belongs to no module, so it is neither built nor run")
endfunction()

function(rehearse_refuse_others found known what)
  foreach(file IN LISTS found)
    if(NOT file IN_LIST known)
      message(FATAL_ERROR "${file} ${what}")
    endif()
  endforeach()
endfunction()

function(rehearse_refuse_unparsed where arguments)
  if(arguments)
    message(FATAL_ERROR "${where}: unknown arguments: ${arguments}")
  endif()
endfunction()

# rehearse_proto(NAME FILE.proto): the library rehearse_NAME_proto with the messages of a file of this folder, included as
# "<folder>/FILE.pb.h". Packages have names of ours: another library of the process may hold the same messages.
function(rehearse_proto name file)
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE folder)
  cmake_path(GET file STEM stem)
  add_custom_command(
    OUTPUT ${stem}.pb.cc ${stem}.pb.h
    COMMAND protobuf::protoc --cpp_out=${PROJECT_BINARY_DIR} -I${PROJECT_SOURCE_DIR} ${folder}/${file}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    DEPENDS ${file})
  add_library(rehearse_${name}_proto STATIC ${stem}.pb.cc)
  target_include_directories(rehearse_${name}_proto SYSTEM PUBLIC ${PROJECT_BINARY_DIR})
  target_compile_options(rehearse_${name}_proto PRIVATE -w)
  target_link_libraries(rehearse_${name}_proto PUBLIC protobuf::libprotobuf)
endfunction()
