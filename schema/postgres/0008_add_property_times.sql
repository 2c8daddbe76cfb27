-- When properties of a person were set, by name, in epoch milliseconds: below zero by a live event. Only of values that an
-- import set, or a live event that was late. Null: of none.
ALTER TABLE persons ADD COLUMN property_times jsonb;
