import t from 'tap'
import { findMaterializedView } from './reattach-views.ts'

t.test('knows the migrations that create or alter a materialized view', (t) => {
  t.equal(findMaterializedView('-- Why.\nCREATE MATERIALIZED VIEW IF NOT EXISTS volumes_view {{on_cluster}} TO volumes AS'), 'volumes_view')
  t.equal(findMaterializedView("ALTER TABLE volumes_view {{on_cluster}}\n  MODIFY COMMENT ''"), 'volumes_view')
  t.equal(findMaterializedView('CREATE TABLE IF NOT EXISTS volumes (a UInt8)'), null)
  t.equal(findMaterializedView('ALTER TABLE volumes ADD COLUMN b UInt8'), null)
  t.end()
})
