from pomp.experiments.backends import (
    Backend as Backend,
    InProcess as InProcess,
    ProcessPool as ProcessPool,
)
from pomp.experiments.cells import Cell as Cell
from pomp.experiments.differences import (
    CellDifference as CellDifference,
    StoreDifference as StoreDifference,
    compare_stores as compare_stores,
)
from pomp.experiments.queries import (
    QueryAnswer as QueryAnswer,
    export_results as export_results,
    query_results as query_results,
)
from pomp.experiments.ray_backend import RayCluster as RayCluster
from pomp.experiments.reporting.contents import write_document as write_document
from pomp.experiments.reporting.documents import (
    Document as Document,
    fill_blocks as fill_blocks,
    to_markdown as to_markdown,
)
from pomp.experiments.reporting.numbers import (
    ReportNumbers as ReportNumbers,
    read_numbers as read_numbers,
)
from pomp.experiments.reporting.pages import to_html as to_html
from pomp.experiments.reproduction import Reproduction as Reproduction, reproduce as reproduce
from pomp.experiments.rows import ROWS as ROWS, TableRow as TableRow
from pomp.experiments.specs import (
    EXPERIMENTS as EXPERIMENTS,
    Experiment as Experiment,
    list_cells as list_cells,
)
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
from pomp.experiments.store import (
    CellResult as CellResult,
    ResultStore as ResultStore,
    read_results as read_results,
)
from pomp.experiments.student import (
    student_cdf as student_cdf,
    student_quantile as student_quantile,
)
from pomp.experiments.tables import (
    OverTasks as OverTasks,
    PaperTable as PaperTable,
    TableEntry as TableEntry,
    compare_over_tasks as compare_over_tasks,
    make_tables as make_tables,
    read_together as read_together,
)
