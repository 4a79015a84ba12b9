from pomp.experiments.statistics import (
    Difference as Difference,
    Summary as Summary,
    bootstrap_interval as bootstrap_interval,
    compare_seeds as compare_seeds,
    compare_with_published as compare_with_published,
    interquartile_mean as interquartile_mean,
    probability_of_improvement as probability_of_improvement,
    summarise as summarise,
)
from pomp.experiments.student import (
    student_cdf as student_cdf,
    student_quantile as student_quantile,
)
