from pomp.runs.embeddings import EmbeddingRun as EmbeddingRun
from pomp.runs.event_files import write_events as write_events
from pomp.runs.evolutions import evolve as evolve
from pomp.runs.folder import RunFolder as RunFolder
from pomp.runs.policies import (
    PolicyEvaluation as PolicyEvaluation,
    evaluate_policy as evaluate_policy,
)
from pomp.runs.reports import report as report
from pomp.runs.results import LearnedMachine as LearnedMachine, LearningResult as LearningResult
from pomp.runs.searches import SearchResult as SearchResult, search as search
from pomp.runs.trainings import train as train
from pomp.runs.work import Event as Event, Progress as Progress
