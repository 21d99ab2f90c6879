-- login_code_take: redeem a one-time code for a login or a pairing, or end a login at an identity provider. Of racing
-- callers one gets it.
-- Replies: taken what | unknown (never made, used already, or expired)
local code = KEYS[1]   -- string: id of the key that asked for a login; tenant and node of a pairing; else the word begun

local what = redis.call('GET', code)
if not what then return {'unknown'} end
redis.call('DEL', code)
return {'taken', what}
