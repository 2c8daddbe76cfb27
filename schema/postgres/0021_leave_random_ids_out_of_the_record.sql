-- Which distinct id became which random one is forgotten once an anonymisation is complete: the record must not keep it.
DO $$
BEGIN
  EXECUTE replace(pg_get_functiondef('record_change'::regproc), '{secure_value,', '{secure_value,anonymised,');
END
$$;
