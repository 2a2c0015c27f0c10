# catalogue/PROGRAM.h and PROGRAM.cpp: tolerances of the verifications in metrics.yaml, and the digest of its entries.
# Python with the suite's requirements writes them. Where the node that builds has none, TENKEN_CATALOGUE is a folder that
# another one wrote: python -m tenken.model.headers SRC/programs FOLDER.
set(TENKEN_CATALOGUE "" CACHE PATH "folder with the headers of the catalogue, if Python cannot write them here")
set(generated ${TENKEN_CATALOGUE})
if(NOT generated)
  find_program(TENKEN_PYTHON NAMES python3 python
    HINTS ${CMAKE_CURRENT_SOURCE_DIR}/../.venv ENV VIRTUAL_ENV PATH_SUFFIXES bin)
  set(generated ${CMAKE_BINARY_DIR}/generated/catalogue)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env PYTHONPATH=${CMAKE_CURRENT_SOURCE_DIR}/..
    ${TENKEN_PYTHON} -m tenken.model.headers ${CMAKE_CURRENT_SOURCE_DIR}/programs ${generated}
    RESULT_VARIABLE failed ERROR_VARIABLE why)
  if(failed)
    string(STRIP "${why}" why)
    string(REGEX MATCH "[^\n]*$" why "${why}")  # of a traceback
    message(FATAL_ERROR "the catalogue's headers cannot be written by ${TENKEN_PYTHON}: ${why}\n"
                        "Run make venv, or give -DTENKEN_PYTHON=... with the suite's requirements, or "
                        "-DTENKEN_CATALOGUE=FOLDER, written by python -m tenken.model.headers src/programs FOLDER")
  endif()
  file(GLOB entries CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/programs/*.yaml
    ${CMAKE_CURRENT_SOURCE_DIR}/programs/*/metrics.yaml)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${entries})
endif()
set(TENKEN_CATALOGUE_SOURCES ${generated})
get_filename_component(generated ${generated} DIRECTORY)
target_include_directories(tenken_options INTERFACE ${generated})
