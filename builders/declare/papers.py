"""The papers whose benchmarks are built: titles, and BibTeX for the dataset card.

Tested by `tests/hf_scripts/test_card.py`.
"""

KIM_2023 = "A Unified Benchmark for the Unknown Detection Capability of Deep Neural Networks"

KIM_2023_BIBTEX = """\
@article{kim2023unified,
  title={A Unified Benchmark for the Unknown Detection Capability of Deep Neural Networks},
  author={Kim, Jihyo and Koo, Jiin and Hwang, Sangheum},
  journal={Expert Systems with Applications},
  volume={229},
  pages={120461},
  year={2023},
  doi={10.1016/j.eswa.2023.120461},
  eprint={2112.00337},
  archivePrefix={arXiv}
}"""

RECALCATI_2023 = "Toward a Realistic Benchmark for Out-of-Distribution Detection"

RECALCATI_2023_BIBTEX = """\
@inproceedings{recalcati2023toward,
  title={Toward a Realistic Benchmark for Out-of-Distribution Detection},
  author={Recalcati, Pietro and Garcea, Fabio and Piano, Luca and Lamberti, Fabrizio and Morra, Lia},
  booktitle={IEEE International Conference on Data Science and Advanced Analytics},
  year={2023},
  eprint={2404.10474},
  archivePrefix={arXiv}
}"""

GUILLE_2023 = "Expecting The Unexpected: Towards Broad Out-Of-Distribution Detection"

ZHANG_2023 = "OpenOOD v1.5: Enhanced Benchmark for Out-of-Distribution Detection"

VAZE_2022 = "Open-Set Recognition: a Good Closed-Set Classifier is All You Need?"

VAZE_2022_BIBTEX = """\
@inproceedings{vaze2022openset,
  title={Open-Set Recognition: a Good Closed-Set Classifier is All You Need?},
  author={Vaze, Sagar and Han, Kai and Vedaldi, Andrea and Zisserman, Andrew},
  booktitle={International Conference on Learning Representations},
  year={2022},
  eprint={2110.06207},
  archivePrefix={arXiv}
}"""

OPENOOD_BIBTEX = """\
@article{zhang2023openood,
  title={{OpenOOD} v1.5: Enhanced Benchmark for Out-of-Distribution Detection},
  author={Zhang, Jingyang and Yang, Jingkang and Wang, Pengyun and Wang, Haoqi and Lin, Yueqian and Zhang, Haoran and
          Sun, Yiyou and Du, Xuefeng and Li, Yixuan and Liu, Ziwei and Chen, Yiran and Li, Hai},
  year={2023},
  eprint={2306.09301},
  archivePrefix={arXiv}
}

@inproceedings{huang2021mos,
  title={{MOS}: Towards Scaling Out-of-Distribution Detection for Large Semantic Space},
  author={Huang, Rui and Li, Yixuan},
  booktitle={IEEE/CVF Conference on Computer Vision and Pattern Recognition},
  year={2021},
  eprint={2105.01879},
  archivePrefix={arXiv}
}

@inproceedings{yang2024imagenetood,
  title={{ImageNet-OOD}: Deciphering Modern Out-of-Distribution Detection Algorithms},
  author={Yang, William and Zhang, Byron and Russakovsky, Olga},
  booktitle={International Conference on Learning Representations},
  year={2024},
  eprint={2310.01755},
  archivePrefix={arXiv}
}"""
