"""The configs of BROAD whose declarations are long, a module each; `builders.broad_benchmark` joins them."""
