-- attempt_extend: nodes ask for more time for live attempts: move the deadlines of their leases. A batch: each job occurs once.
-- A deadline never moves back, and never beyond `limit_ms` after the attempt was dispatched.
-- Replies: of each attempt: advanced | stale (not the current attempt, not this node's, of an earlier epoch of the node, ended, or overdue)
-- include: clock
-- include: number
-- include: record
local leases   = KEYS[1]   -- zset lease -> deadline
local job_keys = {unpack(KEYS, 2)}  -- strings, the jobs' records
local live     = ARGV[1]   -- states of a live attempt
local limit_ms = ARGV[2]
local now_ms   = ARGV[3]
local asks     = {unpack(ARGV, 4)}  -- of each attempt: lease (job#attempt#node), epoch, and for how many ms from now

local moment = clock(now_ms)
local replies = {}
for i, job_key in ipairs(job_keys) do
  local lease, epoch, more_ms = string.match(asks[i], '^(.*) (%S*) (%d+)$')
  local attempt, node = string.match(lease, '#([^#]*)#(.*)$')
  local job = read_record(job_key)
  local deadline = tonumber(redis.call('ZSCORE', leases, lease) or 0)
  replies[i] = 'stale'
  if job and job.attempt == attempt and job.node == node and job.epoch == epoch and deadline > moment
    and string.find(live, job.state, 1, true) then
    local latest = (read_number(job.dispatched_ms) or moment) + limit_ms
    local wanted = math.min(moment + more_ms, latest)
    if wanted > deadline then redis.call('ZADD', leases, 'XX', wanted, lease) end
    replies[i] = 'advanced'
  end
end
return replies
