"""The papers whose benchmarks are built: titles, and BibTeX for the dataset card."""

KIM_2023 = "A Unified Benchmark for the Unknown Detection Capability of Deep Neural Networks"

KIM_2023_BIBTEX = """\
@article{kim2023unified,
  title={A Unified Benchmark for the Unknown Detection Capability of Deep Neural Networks},
  author={Kim, Jihyo and Koo, Jiin and Hwang, Sangheum},
  journal={Expert Systems with Applications},
  volume={229},
  pages={120461},
  year={2023}
}"""
