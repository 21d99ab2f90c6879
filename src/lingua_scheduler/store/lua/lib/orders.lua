-- What is asked for one job, as `store/jobs/jobs.py` writes it: a line `job attempt run_ms utterance wish`, then the session,
-- then, if its caller has a credential, a line with whom it belongs to, and one with its tenant.
-- The wish is empty, or the preferred node (- for none), then 1 if it is that node or none, then the excluded nodes.
-- One table serves all orders of a batch: a table for each would be most of what has to be collected.
local NO_NODES = {}
local function read_order(text, order)
  local wish
  order.job, order.attempt, order.run_ms, order.utterance, wish, order.session, order.belongs_to =
    string.match(text, '^(%S+) (%S+) (%S+) (%S+) ([^\n]*)\n([^\n]*)\n?(.*)$')
  local preferred, is_only, excluded = nil, false, NO_NODES
  if wish ~= '' then
    excluded = {}
    for place, word in ipairs(words(wish)) do
      if place > 2 then
        excluded[word] = true
      elseif place == 2 then
        is_only = word == '1'
      elseif word ~= '-' then
        preferred = word
      end
    end
  end
  order.preferred, order.is_only, order.excluded, order.is_any_well = preferred, is_only, excluded, false
end

-- The reply to an order for a job that has a record: the same attempt again, whose reply got lost, or a job that is over.
-- Nothing when the job may have this attempt.
local function reply_again(order, known, before, live, owners, leases)
  local owner = redis.call('HGET', owners, known.node)
  if known.attempt == order.attempt and read_owner(owner) and string.find(live, known.state, 1, true)
    and redis.call('ZSCORE', leases, order.job .. '#' .. order.attempt .. '#' .. known.node) then
    return 'dispatched ' .. known.node .. ' ' .. owner
  elseif not string.find(before, known.state, 1, true) or tonumber(known.attempt) >= tonumber(order.attempt) then
    return 'stale'
  end
end
