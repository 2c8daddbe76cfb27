-- Events of bodies with "process_person_profile": false, so that a repair of persons does not apply what they would have set.
-- Without a DEFAULT, and left out of frames in which no event has it: it costs nothing until it is used.
ALTER TABLE events {{on_cluster}} ADD COLUMN IF NOT EXISTS without_person Bool COMMENT 'Its request said that its events change no persons';
