"""The threads of the linear algebra libraries (BLAS) under NumPy and SciPy: one, where others share the machine.

By default each library has as many as there are cores. For matrices of some hundred rows they cost more than they give:
they wait for each other, and for the processes beside them.
"""

import os

ONE_BLAS_THREAD = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def use_one_blas_thread() -> None:
    """Give this process one, unless its environment says how many. NumPy is loaded, and would not read it any more."""
    if any(name in os.environ for name in ONE_BLAS_THREAD):
        return
    import scipy.linalg.cython_blas  # noqa: F401  # the library that compiled kernels use: what comes later has all
    from threadpoolctl import threadpool_limits

    threadpool_limits(1, user_api="blas")
