# Forgets what FindMPI cached if mpicxx became that of another MPI, by a module or an alternative: the programs would
# stay linked with the former one, and mpirun of the new one would start each rank alone.
execute_process(COMMAND mpicxx -show OUTPUT_VARIABLE mpi_shown RESULT_VARIABLE mpi_failed ERROR_QUIET)
string(REGEX REPLACE "[\n;]" " " mpi_shown "${mpi_shown}")
if(DEFINED TENKEN_MPI_SHOWN AND NOT mpi_shown STREQUAL TENKEN_MPI_SHOWN)
  get_cmake_property(mpi_cached CACHE_VARIABLES)
  foreach(name IN LISTS mpi_cached)
    if(name MATCHES "^MPI_")
      unset(${name} CACHE)
    endif()
  endforeach()
endif()
set(TENKEN_MPI_SHOWN "${mpi_shown}" CACHE INTERNAL "what mpicxx -show printed")
