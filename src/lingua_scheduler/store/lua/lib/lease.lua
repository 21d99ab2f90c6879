-- Job, attempt and node of a lease, or nothing: what is no lease of ours is skipped by all, and removed by repair.
-- `domain/jobs/attempts.py` reads them alike.
local function read_lease(lease)
  local shard, serial, attempt, node = string.match(lease, '^job%-(%d+)%-([%w_-]+)#(%d+)#(%w[%w._:-]*)$')
  if not shard or #shard > 4 or #serial > 100 or #attempt > 9 or #node > 64 then return nil end
  return 'job-' .. shard .. '-' .. serial, attempt, node
end
