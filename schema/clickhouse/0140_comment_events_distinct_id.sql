-- Visitors without cookies have an id that ingest makes.
ALTER TABLE events {{on_cluster}}
    COMMENT COLUMN distinct_id 'Identity of the sender as the SDK gave it, at most 200 characters; cookieless_... is a visitor without cookies, for one day; $posthog_cookieless all of those that could not be told apart'
