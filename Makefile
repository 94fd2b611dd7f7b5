# One command each. `make test` runs all checks, cheapest first: it needs no root, installs nothing and never writes into the tree.
# `make test-system` adds what needs root or a service.

.PHONY: test test-system test-bindings wheel release-wheel release-binary test-python test-spark miri fix bench bench-solo bench-parallel bench-scaling bench-accuracy bench-matrix bench-classes bench-dl4j bench-burn bench-cluster bench-network picture publishable packaged licences advisories unbroken

# What is optional is tested, too.
ALL = --workspace --locked --features paceline-cli/shards

test:
	cargo fmt --all --check
	cargo clippy $(ALL) --all-targets -- -D warnings
	cargo test $(ALL)
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

# What a release needs besides: every crate built from its package (`VERIFY=--no-verify` only packs them); licences, and what is there
# twice (`deny.toml`); no weakness that is known, which asks GitHub; no break with the last release that the version does not announce.
# Tools that are missing are built into `target/tools`.
TOOLS = $(CURDIR)/target/tools
CRATES = --workspace --exclude paceline-sim --exclude paceline-loom
TOOL = PATH="$(TOOLS)/bin:$$PATH"; command -v $(1) > /dev/null || cargo install --quiet --debug --locked --root $(TOOLS) --target-dir $(TOOLS)/build $(1)
publishable: packaged licences advisories unbroken
packaged:
	cargo package $(CRATES) --locked $(VERIFY)
licences:
	$(call TOOL,cargo-deny) && cargo deny check licenses bans sources
advisories:
	$(call TOOL,cargo-deny) && cargo deny check advisories
unbroken:
	last=$$(git describe --tags --abbrev=0 --match 'v*' 2> /dev/null) || { echo 'no release yet to compare with'; exit 0; }; \
	$(call TOOL,cargo-semver-checks) && cargo semver-checks $(CRATES) --baseline-rev "$$last"

# As root, on Debian or a child of it: network namespaces, and a ZooKeeper, which is installed if it is missing.
test-system:
	cargo clippy $(ALL) --test system -- -D warnings
	cargo test $(ALL) --test system

# The Python package: its wheel is built and installed into a fresh environment, where its tests run. Needs Python 3.11 or later, and
# what pip installs.
PYTHON = $(CURDIR)/target/python/bin/python
PIP = -m pip install --quiet --disable-pip-version-check
wheel:
	python3 -m venv --clear target/python
	$(PYTHON) $(PIP) 'maturin>=1.16,<2'
	rm -rf target/wheels
	cd python && $(PYTHON) -m maturin build --release --locked --quiet --out ../target/wheels

# The wheel as it is published: for any Linux with glibc 2.28 (2018) or later and any Python from 3.11 on, and checked for both.
RELEASE = $(CURDIR)/target/release-python/bin/python
release-wheel:
	python3 -m venv --clear target/release-python
	$(RELEASE) $(PIP) 'maturin[zig]>=1.16,<2' 'auditwheel>=6' 'abi3audit>=0.0.21'
	rm -rf target/release-wheels
	cd python && PATH="$(dir $(RELEASE)):$$PATH" $(RELEASE) -m maturin build --release --locked --quiet --zig --compatibility manylinux_2_28 --out ../target/release-wheels
	$(RELEASE) -m auditwheel show target/release-wheels/*.whl | tr '\n' ' ' | grep 'consistent with.*manylinux_2_28'
	$(RELEASE) -m abi3audit --strict target/release-wheels/*.whl
	test "$$(stat -c %s target/release-wheels/*.whl)" -le 25000000

# The program as it is shipped: with Parquet and Arrow, and without symbols.
release-binary:
	cargo build --release --locked --features paceline-cli/shards --config profile.release.strip=true
	ls -l target/release/paceline

test-python: wheel
	cd python && cargo fmt --check && cargo clippy --release --locked -- -D warnings
	$(PYTHON) $(PIP) "$$(ls target/wheels/*.whl)[test]"
	cd python && $(PYTHON) -m mypy
	cd python/tests && $(PYTHON) -m mypy.stubtest paceline._native --mypy-config-file ../pyproject.toml && $(PYTHON) -m pytest
	python3 -m venv --clear target/python-numpy1
	target/python-numpy1/bin/python $(PIP) "$$(ls target/wheels/*.whl)" 'numpy<2' 'pandas<3' 'pyarrow<20' 'polars>=1' 'pytest>=8'
	cd python/tests && ../../target/python-numpy1/bin/python -m pytest --ignore=test_sklearn.py

# `paceline.spark` on a real cluster of this version of Spark, on this machine: the wheel, a standalone master and two workers; from
# version 4 on also over Connect, which needs a process of its own. Spark 3 is tested with the NumPy of its time. Needs Java 17.
SPARK = 4.3.0
SPARKS = $(CURDIR)/target/spark-$(SPARK)
OF_ITS_TIME = $(if $(filter 3.%,$(SPARK)),'numpy<2' 'pyarrow<20')
test-spark:
	test -n "$$(ls target/wheels/*.whl)" || $(MAKE) wheel
	python3 -m venv --clear $(SPARKS)
	$(SPARKS)/bin/python $(PIP) "$$(ls target/wheels/*.whl)[spark]" 'pyspark[connect]==$(SPARK)' $(OF_ITS_TIME) 'pytest>=8'
	cd python/tests/spark && $(SPARKS)/bin/python -m pytest --ignore=test_connect.py
	case $(SPARK) in 3.*) ;; *) cd python/tests/spark && $(SPARKS)/bin/python -m pytest test_connect.py ;; esac

# The two above in one environment and in less time: a wheel that is built fast, the package, and that fits on the newest Spark
# are exact.
BINDINGS = $(CURDIR)/target/bindings/bin/python
test-bindings:
	python3 -m venv --clear target/bindings
	$(BINDINGS) $(PIP) 'maturin>=1.16,<2'
	rm -rf target/bindings-wheels
	cd python && $(BINDINGS) -m maturin build --profile dev --locked --quiet --out ../target/bindings-wheels
	$(BINDINGS) $(PIP) "$$(ls target/bindings-wheels/*.whl)[test,spark]" 'pyspark[connect]==$(SPARK)'
	cd python && $(BINDINGS) -m mypy
	cd python/tests && $(BINDINGS) -m mypy.stubtest paceline._native --mypy-config-file ../pyproject.toml && $(BINDINGS) -m pytest
	cd python/tests/spark && $(BINDINGS) -m pytest test_exact.py

# Undefined behaviour in the buffers that all else rests on; installs nightly Rust with Miri.
miri:
	rustup toolchain install nightly --profile minimal --component miri --component rust-src
	cargo +nightly miri test -p paceline-model

fix:
	cargo fmt --all
	cargo clippy --workspace --all-targets --fix --allow-dirty --allow-staged

# Everything that needs only PyTorch, one after the other: two at a time would disturb each other.
bench:
	python3 bench/run.py
	python3 bench/parallel.py
	python3 bench/scaling.py
	python3 bench/accuracy.py
	python3 bench/picture.py

bench-solo:
	python3 bench/run.py

bench-parallel:
	python3 bench/parallel.py --peer pytorch --peer ddp

bench-scaling:
	python3 bench/scaling.py

bench-accuracy:
	python3 bench/accuracy.py

# On demand: accuracy of all modes and numbers of workers, and the peers that are recorded once.
bench-matrix:
	python3 bench/accuracy.py --matrix

bench-classes:
	python3 bench/accuracy.py --classes

bench-dl4j:
	python3 bench/parallel.py --peer dl4j

bench-burn:
	python3 bench/parallel.py --peer burn

bench-cluster:
	python3 bench/cluster.py

# As root: it makes network namespaces.
bench-network:
	python3 bench/network.py

picture:
	python3 bench/picture.py
