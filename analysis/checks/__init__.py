"""What stands beside the answer, and never decides it.

control       each arm beside a control              sensitivity   the answer over margins
convergence   the gap over training                  frontier      loss against cost, and its knee
other_tests   a mixed model and other tests, for the appendix
"""
