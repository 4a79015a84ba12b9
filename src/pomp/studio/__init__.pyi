from pomp.studio.pages import save_page as save_page
from pomp.studio.recording import (
    RecordedEpisode as RecordedEpisode,
    record_episode as record_episode,
)
