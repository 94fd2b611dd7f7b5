# One command each. `make test` runs all checks, cheapest first, and never writes into the tree.

.PHONY: test fix bench

test:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo test --workspace --locked
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

fix:
	cargo fmt --all
	cargo clippy --workspace --all-targets --fix --allow-dirty --allow-staged

bench:
	python3 bench/run.py
