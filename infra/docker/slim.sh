#!/bin/sh
# Takes out of an environment what no program of an image uses: slim.sh /opt/tidelog/lib [gateway]. Needs binutils.
#
# What is left still imports, and says who is missing: pyarrow without its own S3 and Flight (the log's stores are boto3's), boto3 with
# the descriptions of the services that are asked. Links are not followed, so that a borrowed package stays whole. For the gateway's
# image imports.py tells.
set -eu
# By path below any package: tests and what only compilers and type checkers read.
find "$1" -depth -type d \( -name tests -o -name __pycache__ -o -path '*/pyarrow/include' -o -path '*/pyarrow/src' -o -path '*/numpy/f2py' \
    -o -path '*/numpy/distutils' -o -path '*/pyspark/examples' \) -exec rm -r {} +
find "$1" -type f \( -name '*.pyi' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.pxi' -o -name '*.[ah]' \) -delete
find "$1" -type f -path '*/pyarrow/*' \( -name '*flight*' -o -name 'libarrow_s3.*' -o -name '_s3fs.*' -o -name '_pyarrow_cpp_tests.*' \
    -o -name 'libarrow_python*.so' -o -name 'libarrow_python*.so.*.*' \) -delete
find "$1" -type f -path '*/pyarrow/*' \( -name '_substrait.*' -o -name '_azurefs.*' -o -name '_gcsfs.*' -o -name '_hdfs.*' \) -delete
# The same module twice: C's API is what CPython uses. Only its compiled part is imported, by cryptography.
find "$1" -type f \( -path '*/zstandard/_cffi.*' -o -path '*/zstandard/backend_cffi.*' \) -delete
find "$1" -depth -type d \( -path '*/site-packages/cffi' -o -path '*/site-packages/pycparser' \) -exec rm -r {} +
# Lexers of 500 languages: rich shows tracebacks of Python and commands of a shell.
find "$1" -type f -path '*/pygments/lexers/*' ! -name '__init__.py' ! -name '_mapping.py' ! -name 'python.py' ! -name 'shell.py' \
    ! -name 'special.py' -delete
# Descriptions of 400 services of AWS.
find "$1" -depth -type d -path '*/botocore/data/*' ! -path '*/data/s3' ! -path '*/data/s3/*' ! -path '*/data/sso*' ! -path '*/data/sts' \
    ! -path '*/data/sts/*' ! -path '*/data/signin*' -exec rm -r {} +
# What a gateway has no use for, but jobs of Spark's users may: Arrow's datasets and what else they read, numpy's random numbers and
# transforms, boto3's objects, the jobs themselves, the regions of services that nobody asks. All code is there once, compiled: a
# traceback still names files and lines.
if [ "${2:-}" = gateway ]; then
    find "$1" -depth -type d \( -path '*/numpy/random' -o -path '*/numpy/fft' -o -path '*/numpy/polynomial' -o -path '*/numpy/testing' \
        -o -path '*/boto3/data/*' -o -path '*/site-packages/spark_pipeline' \) -exec rm -r {} +
    find "$1" -type f -path '*/numpy/_core/*' \( -name '_simd.*' -o -name '*_tests.*' \) -delete
    find "$1" -type f -path '*/pyarrow/*' \( -name '_dataset*' -o -name '_csv.*' -o -name '_orc.*' -o -name '_feather.*' \
        -o -name '*_encryption.*' -o -name 'libarrow_python_parquet_encryption.*' \) -delete
    find "$1" -type f -path '*.dist-info/RECORD' -delete
    # Linked to by each of Arrow's libraries, none of which takes a symbol from them: empty ones do.
    find "$1" -type f \( -name 'libarrow_substrait.so.*' -o -name 'libarrow_dataset.so.*' \) | while read -r each; do
        : | as -o empty.o - && ld -shared -soname "${each##*/}" -o "$each" empty.o
    done
    find "$1" -type f -path '*/botocore/data/endpoints.json' | while read -r each; do
        "$1/../bin/python" -c 'import json, sys
path, asked = sys.argv[1], {"s3", "sts", "sso", "oidc", "portal.sso", "signin"}
with open(path) as file: known = json.load(file)
for partition in known["partitions"]: partition["services"] = {k: v for k, v in partition["services"].items() if k in asked}
with open(path, "w") as file: json.dump(known, file)' "$each"
    done
    for each in "$1"/python*/site-packages/*; do
        if [ ! -L "$each" ]; then
            "$1/../bin/python" -m compileall -q -b "$each"
            find "$each" -type f -name '*.py' -delete
        fi
    done
fi
# Symbols for debuggers. The libraries that numpy brings are left alone: their sections were moved after they were linked.
find "$1" -type f -name '*.so*' ! -path '*/numpy.libs/*' -exec strip --strip-unneeded {} +
