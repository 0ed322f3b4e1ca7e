#!/bin/sh
# Takes out of an environment what no program of an image uses: slim.sh /opt/tidelog/lib. Needs binutils.
#
# What is left still imports, and says who is missing: pyarrow without its own S3 and Flight (the log's stores are boto3's), boto3 with
# the descriptions of the services that are asked. Links are not followed, so that a borrowed package stays whole.
set -eu
# By path below any package: tests and what only compilers and type checkers read.
find "$1" -depth -type d \( -name tests -o -name __pycache__ -o -path '*/pyarrow/include' -o -path '*/pyarrow/src' -o -path '*/numpy/f2py' \
    -o -path '*/numpy/distutils' -o -path '*/pyspark/examples' \) -exec rm -r {} +
find "$1" -type f \( -name '*.pyi' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.pxi' -o -name '*.[ah]' \) -delete
find "$1" -type f -path '*/pyarrow/*' \( -name '*flight*' -o -name 'libarrow_s3.*' -o -name '_s3fs.*' -o -name '_pyarrow_cpp_tests.*' \
    -o -name 'libarrow_python*.so' -o -name 'libarrow_python*.so.*.*' \) -delete
# The same module twice: C's API is what CPython uses.
find "$1" -type f -path '*/zstandard/_cffi.*' -delete
# Descriptions of 400 services of AWS.
find "$1" -depth -type d -path '*/botocore/data/*' ! -path '*/data/s3' ! -path '*/data/s3/*' ! -path '*/data/sso*' ! -path '*/data/sts' \
    ! -path '*/data/sts/*' ! -path '*/data/signin*' -exec rm -r {} +
# Symbols for debuggers. The libraries that numpy brings are left alone: their sections were moved after they were linked.
find "$1" -type f -name '*.so*' ! -path '*/numpy.libs/*' -exec strip --strip-unneeded {} +
